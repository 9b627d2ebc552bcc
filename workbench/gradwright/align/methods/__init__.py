"""Methods: settings of alignment, a file each; one makes the objective that a trainer trains."""
