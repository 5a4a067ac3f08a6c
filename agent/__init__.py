"""Dev Cluster."""
