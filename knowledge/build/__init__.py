"""Building a knowledge base: a new one, one that was stopped half-way, or one to be updated."""

from briefcontext.knowledge.build.build import BuildReport, SourceReport, build_knowledge_base

__all__ = ["BuildReport", "SourceReport", "build_knowledge_base"]
