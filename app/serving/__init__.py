"""The service: indexes over HTTP for agents, trainers and other programs, and as tools of MCP."""
