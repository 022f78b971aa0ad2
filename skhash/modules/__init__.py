"""Encoders, decoders and their losses as torch modules, imported to train one."""
