"""Homes of workspaces: what is in them, how two differ, and how one becomes like another."""
