//! CSV tables with a public schema.
