"""The routes of the service, one file for each family of clients."""
