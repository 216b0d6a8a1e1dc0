//! What a registration gives: typed handles, by which a group's outputs are read.

use std::marker::PhantomData;

use super::cell::Atom;
use pcp_model::ValueType;

/// A type that outputs can have: `i32`, `u32`, `i64`, `u64`, `f32`, `f64`, `String`, or [`AnyType`].
pub trait Output: sealed::Sealed {
    /// What reading gives: a number itself, a text by reference.
    type Ref<'a>;
    /// The type values are cast to; `None` leaves it to the registration.
    const TYPE: Option<ValueType>;
    /// The value, if it is of this type.
    fn read(atom: Atom<'_>) -> Option<Self::Ref<'_>>;
}

/// An output whose type is chosen when the program runs: the metric's own, or one that is given.
#[derive(Clone, Copy, Debug)]
pub enum AnyType {}

impl Output for AnyType {
    type Ref<'a> = Atom<'a>;
    const TYPE: Option<ValueType> = None;

    fn read(atom: Atom<'_>) -> Option<Atom<'_>> {
        Some(atom)
    }
}

impl Output for String {
    type Ref<'a> = &'a str;
    const TYPE: Option<ValueType> = Some(ValueType::String);

    fn read(atom: Atom<'_>) -> Option<&str> {
        match atom {
            Atom::String(text) => Some(text),
            _ => None,
        }
    }
}

macro_rules! numbers {
    ($($rust:ty => $variant:ident),*) => {
        $(impl Output for $rust {
            type Ref<'a> = $rust;
            const TYPE: Option<ValueType> = Some(ValueType::$variant);

            fn read(atom: Atom<'_>) -> Option<$rust> {
                match atom {
                    Atom::$variant(value) => Some(value),
                    _ => None,
                }
            }
        }
        impl sealed::Sealed for $rust {})*
    };
}
numbers!(i32 => I32, u32 => U32, i64 => I64, u64 => U64, f32 => Float, f64 => Double);

mod sealed {
    pub trait Sealed {}
    impl Sealed for String {}
    impl Sealed for super::AnyType {}
}

/// Which registration of which group, since it was last cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub stamp: u64,
    pub index: usize,
}

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident),*) => {
        $($(#[$doc])*
        ///
        /// It is of one group, and of no use after [`clear`](super::FetchGroup::clear): reading with it fails with
        /// `-EINVAL` then.
        #[derive(Debug)]
        pub struct $name<T> {
            pub(super) key: Key,
            output: PhantomData<fn() -> T>,
        }

        impl<T> $name<T> {
            pub(super) fn new(key: Key) -> $name<T> {
                $name { key, output: PhantomData }
            }
        }

        // Derived ones would ask the same of T.
        impl<T> Clone for $name<T> {
            fn clone(&self) -> $name<T> {
                *self
            }
        }
        impl<T> Copy for $name<T> {})*
    };
}
handles!(
    /// A value: a metric, and one instance of it.
    ItemHandle,
    /// The values of all instances of a metric.
    IndomHandle,
    /// The values of a field in event records.
    EventHandle
);
