//! The deterministic discrete-event engine.
