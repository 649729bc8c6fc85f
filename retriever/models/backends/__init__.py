"""The engines that compute a model: torch, OpenVINO, tables of static vectors."""
