"""The core of decoding; used by the decoders and by payloads through ``cimport`` alone."""
