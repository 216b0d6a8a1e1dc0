//! Seat.
