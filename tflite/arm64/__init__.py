"""A .tflite file on the processors of phones, emulated by QEMU: answers and executed instructions."""
