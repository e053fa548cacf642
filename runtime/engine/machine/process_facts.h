/* process_facts.h - a process's facts for the roll call: version, checkpoint, options, devices, network interfaces. */
#ifndef YK_ENGINE_MACHINE_PROCESS_FACTS_H
#define YK_ENGINE_MACHINE_PROCESS_FACTS_H

#include "base/strbuf.h"
#include "engine/machine/settings.h"
#include "parallel/cluster/cluster.h"

/* Addresses of the interfaces that are up, as "eth0=10.0.0.7". */
#define YK_FACT_NETWORK "network"

typedef struct yk_process_facts {
  yk_fact facts[YK_CLUSTER_MAX_FACTS];
  int n;
  yk_strbuf values[YK_CLUSTER_MAX_FACTS]; /* [n] the texts of the facts */
} yk_process_facts;

/* yk_process_facts_collect - the facts of this process, with the same names in the same order in every process. Options
 *   have the names of the program's options. settings: the devices, as yk_settings_devices has chosen them.
 *   purpose: of a run of several engines, whose options of ranks are no facts; NULL: a run of one engine.
 *   identity: of the checkpoint. Free *out with yk_process_facts_free. Errors: YK_E_NOMEM. */
yk_status yk_process_facts_collect(const yk_engine_options *options, const yk_settings *settings, const char *purpose,
                                   uint32_t identity, yk_process_facts *out, yk_err *err);
/* yk_process_facts_value - a fact by its name; "" if there is none. Lives as long as *facts. */
const char *yk_process_facts_value(const yk_process_facts *facts, const char *name);
void yk_process_facts_free(yk_process_facts *facts);

#endif
