/* fault_hook.h - makes one operation of one rank really fail, according to the environment:
 *
 *   YOKE_FAULT="rank=1 operation=attention call=7 fault=illegal-address seconds=2"
 *
 * operation  alloc, linear_create, linear_forward, attention, sample, graph_run (of steps) of the device;
 *            all_reduce_add_norm, gather, await_writes, destroy of the communicator; a destroy with error or skip
 *            frees nevertheless, and exit handlers then report on stderr that they run
 * call       the operation's call that fails, counted from 1
 * fault      error            the call returns an error and does nothing
 *            skip             the call does nothing, so that peers wait for the rank
 *            stall-host       the thread sleeps before the call for `seconds`, and until the file `until` exists
 *            slow-host        the thread sleeps before this call and every later one for `seconds`
 *            stall-gpu        a kernel spins before the call, for `seconds` (0: a minute), or until fault_hook_release
 *            illegal-address  a kernel before the call writes to an invalid address
 *            launch-failure   a kernel before the call traps
 *            no-memory        alloc: requests more memory than any device has
 *            bad-peer         gather, not on rank 0: sends to a rank that does not exist, which NCCL refuses
 *
 * Programs are linked with this file and --wrap for yk_cpu_device_create, yk_cuda_device_create, yk_model_create and
 * yk_nccl_load; the library itself does not depend on the hook. Ranks are numbered in the order in which their devices
 * are created. */
#ifndef TESTS_FAULT_HOOK_FAULT_HOOK_H
#define TESTS_FAULT_HOOK_FAULT_HOOK_H

#include <stdbool.h>

/* fault_hook_arm - read the environment again, for the engine that is created next. Without YOKE_FAULT nothing fails.
 * Runs once before main. Exits with a message if the variable is malformed. */
void fault_hook_arm(void);

/* fault_hook_happened - whether the fault has occurred since it was armed. */
bool fault_hook_happened(void);

/* fault_hook_release - let spinning kernels end. */
void fault_hook_release(void);

#endif
