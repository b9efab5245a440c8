"""Completion: item features from public users' ratings and private devices' second-order releases."""
