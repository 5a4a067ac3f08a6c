"""The spawner: what JupyterHub asks of us, said to the manager. It decides nothing itself."""

from .spawner import DevClusterSpawner

__all__ = ["DevClusterSpawner"]
