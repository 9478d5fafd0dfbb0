"""Encoders of questions and passages."""

from briefcontext.knowledge.encoders.encoder import Encoder
from briefcontext.knowledge.encoders.sentence_transformer import load_encoder, register_encoder

__all__ = ["Encoder", "load_encoder", "register_encoder"]
