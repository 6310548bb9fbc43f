//! Walks in periods against numbers computed apart from this code.
