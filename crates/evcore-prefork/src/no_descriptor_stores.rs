//! A stand-in for `descriptor_stores.rs` on systems other than Linux. Descriptor stores need Linux.

use std::{convert::Infallible, marker::PhantomData};

use crate::{
    error::{Error, Result},
    exit::WorkerInfo,
    kept::{HandOn, KeptCounts},
    successor::Successor,
    worker::Worker,
};

/// A type without values, because `new` always returns an error.
#[derive(Debug)]
pub(crate) struct DescriptorStores<'a>(Infallible, PhantomData<HandOn<'a>>);

impl<'a> DescriptorStores<'a> {
    pub(crate) fn new(_: HandOn<'a>, _: usize) -> Result<Self> {
        Err(Error::NoDescriptorStore)
    }

    pub(crate) fn begin(self, _: &mut Worker, _: usize) -> ReturnReport {
        match self.0 {}
    }

    pub(crate) fn prepare(&mut self, _: usize) {
        match self.0 {}
    }

    pub(crate) fn set_successor(&self, _: Successor) {
        match self.0 {}
    }

    pub(crate) fn worker_ended(&mut self, _: &WorkerInfo, _: bool) {
        match self.0 {}
    }

    pub(crate) fn reap(&mut self, _: &mut dyn FnMut(&WorkerInfo, KeptCounts)) {
        match self.0 {}
    }

    pub(crate) fn wait(&mut self) {
        match self.0 {}
    }
}

/// The report that a worker's function has returned. This value is never made, because only a
/// worker with a store makes one.
#[derive(Debug)]
pub(crate) struct ReturnReport;

impl ReturnReport {
    pub(crate) fn report(&self) {}
}
