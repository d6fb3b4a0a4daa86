"""A page that runs .tflite files in the browser."""
