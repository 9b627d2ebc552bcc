"""What JupyterLab's side panel and status bar know of a kernel, over a comm of its own."""
