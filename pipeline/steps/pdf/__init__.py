"""Read and render PDFs in sandboxed child processes."""
