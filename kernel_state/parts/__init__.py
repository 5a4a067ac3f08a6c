"""What a kernel is besides its variables."""
