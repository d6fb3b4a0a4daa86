"""Files whose tensors are all integers (`int8_full`), or int16 between int8 weights (`int16x8`).

litert-quantizer knows some fifty operators; what lies between them stays float. Microcontrollers and
NPUs take no float at all, so the graph is written in integers here, operator by operator:

- `forms.py` turns float operators without an integer kernel into ones with;
- `kernels.py` says which operators the runtime has in int8 and in int16, and what their scales must be;
- `scales.py` gives every tensor its scale;
- `graph_writer.py` writes the integer graph, with conversions around what stays float;
- `search.py` chooses ranges, and what stays float, by trial on calibration samples.
"""
