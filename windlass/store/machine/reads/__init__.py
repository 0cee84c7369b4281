"""Listings and summaries."""
