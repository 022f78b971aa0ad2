"""Encoders, decoders and their losses as torch modules; imported where one is trained."""
