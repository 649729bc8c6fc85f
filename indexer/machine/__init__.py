"""This machine: processes, devices, locks, limits, memory."""
