//! Tests of the audits.
