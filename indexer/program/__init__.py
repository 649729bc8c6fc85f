"""What every command needs: errors, settings, options, progress, words."""
