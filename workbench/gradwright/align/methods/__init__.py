"""Methods: the settings of each as one frozen value."""
