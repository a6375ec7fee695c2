/* Threads on which python may run, for what is left to do when a work is done. */
#pragma once

#include <c10/util/intrusive_ptr.h>

namespace plait_torch {

class WorkPlait;

/* Has work->complete() called, and the reference dropped, on a thread that may run python. From any thread; never waits. */
void complete_later(c10::intrusive_ptr<WorkPlait> work);

/* Stops the threads, within two seconds. For the end of the process; needs the GIL released. */
void stop_completion();

} // namespace plait_torch
