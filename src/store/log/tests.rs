//! Tests of opening and appending.
