//! Tests of opening a data folder.
