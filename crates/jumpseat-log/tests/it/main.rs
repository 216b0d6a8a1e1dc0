//! What `jumpseat-log` promises, seen from outside.

mod crash;
mod damage;
mod life;
mod seen;
