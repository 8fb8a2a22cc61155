//! Column chunks, codecs and vector kernels; no Postgres, no pgrx.
