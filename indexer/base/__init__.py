"""What every package uses: errors, options, progress, processes."""
