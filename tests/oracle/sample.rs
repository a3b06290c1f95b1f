//! A module.
#![allow(dead_code)]

mod inner {
    pub(crate) unsafe fn qualified() {}
    mod deeper {
        fn deep() {}
    }
}

/// Outside the lines.
#[inline]
pub const fn attributed<T: Copy>(
    a: T,
) -> T
where
    T: Sized,
{
    fn folded() {}
    let _ = |x: u8| x;
    a
}

trait Shape {
    #[must_use]
    fn area(&self) -> f64;
    fn twice(&self) -> f64 {
        2.0 * self.area()
    }
}

impl<T> Shape for &[T] {
    fn area(&self) -> f64 {
        0.0
    }
}

extern "C" {
    fn foreign(a: i32);
    pub fn visible();
}

macro_rules! made {
    () => {
        fn by_a_macro() {}
    };
}

async fn r#match() {}
fn main() { made!(); }
