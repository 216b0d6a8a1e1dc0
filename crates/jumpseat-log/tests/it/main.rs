//! What `jumpseat-log` promises, seen from outside.

mod bodies;
mod crash;
mod damage;
mod failing;
mod identifiers;
mod life;
mod seen;
