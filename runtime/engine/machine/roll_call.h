/* roll_call.h - the start of a run of several processes. */
#ifndef YK_ENGINE_MACHINE_ROLL_CALL_H
#define YK_ENGINE_MACHINE_ROLL_CALL_H

#include "parallel/cluster/cluster.h"
#include "yoke/yoke.h"

/* yk_roll_call_hold - hold the roll call: every process reports its version, checkpoint, options, devices and network
 *   interfaces. listener: on which process 0 listens in place of the options' address, and which is closed; or NULL.
 *   *out stays NULL for a run of one process. log: must outlive the cluster; gets the table of a failed roll call.
 *   A process that cannot take part (options that it refuses, no GPU left) joins nevertheless, so that all others get
 *   its reason. known: a reason that the caller has; or NULL.
 *   Errors: YK_E_INVAL (options), YK_E_COMM and YK_E_TIMEOUT of yk_cluster_join, naming processes and facts;
 *   YK_E_IO (the checkpoint, the address). Thread: any. */
yk_status yk_roll_call_hold(const yk_engine_options *options, const yk_listener *listener, const yk_log *log,
                            const yk_err *known, yk_cluster **out, yk_err *err);

/* yk_roll_call_hold_group - the same for a run of several engines, or of none, that all processes start for one
 *   purpose: the ranks are the processes, and no GPU is claimed. model_dir may be NULL. */
yk_status yk_roll_call_hold_group(const yk_engine_options *options, const char *purpose, const yk_listener *listener,
                                  const yk_log *log, yk_cluster **out, yk_err *err);

#endif
