/* fault_hook.h - makes one operation of one rank go wrong for real, as the environment asks:
 *
 *   YOKE_FAULT="rank=1 operation=attention call=7 fault=illegal-address seconds=2"
 *
 * operation  alloc, linear_create, linear_forward, attention, sample, graph_run (of steps) of the device;
 *            all_reduce_add_norm, gather, await_writes, destroy of the communicator; after a destroy that error or
 *            skip has met (it frees all the same), exit handlers are told on stderr
 * call       which call of it goes wrong, from 1
 * fault      error            it returns an error and does nothing
 *            skip             it does nothing, so that peers wait for it
 *            stall-host       the thread sleeps for `seconds` first
 *            stall-gpu        a kernel spins before it, for `seconds` (0: a minute), or until fault_hook_release
 *            illegal-address  a kernel before it writes where there is no memory
 *            launch-failure   a kernel before it traps
 *            no-memory        alloc: it asks for more than any device has
 *            bad-peer         gather, not on rank 0: NCCL is asked to send to a rank that is not there, and refuses
 *
 * YOKE_FAULT_ALL_REDUCE=nccl has GPUs all-reduce over NCCL whatever the size, and gather logits over it too.
 *
 * Programs are linked with this file and --wrap for yk_cpu_device_create, yk_cuda_device_create, yk_model_create,
 * yk_p2p_options_for and yk_nccl_load; the library itself knows nothing of it. Ranks are counted as their devices are
 * created. */
#ifndef TESTS_FAULT_HOOK_FAULT_HOOK_H
#define TESTS_FAULT_HOOK_FAULT_HOOK_H

#include <stdbool.h>

/* fault_hook_arm - read the environment again, for the engine that is created next. Without YOKE_FAULT nothing goes
 *   wrong. Called once before main by itself. Exits with a message where the variable makes no sense. */
void fault_hook_arm(void);

/* fault_hook_happened - whether the fault has come about since it was armed. */
bool fault_hook_happened(void);

/* fault_hook_release - let spinning kernels end. */
void fault_hook_release(void);

#endif
