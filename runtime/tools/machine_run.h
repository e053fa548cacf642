/* machine_run.h - state that the measurements of a machine share: options with all defaults filled in, and the rows so
 * far. */
#ifndef YK_TOOLS_MACHINE_RUN_H
#define YK_TOOLS_MACHINE_RUN_H

#include "base/spread.h"
#include "yoke/tools.h"
#include "yoke/yoke.h"

enum { YK_MACHINE_MAX_REPEATS = 100 };

typedef struct yk_machine_run {
  yk_machine_options options; /* defaults filled in */
  int device_ids[YK_MAX_RANKS];
  yk_machine_report *report;
  size_t max_rows;
  yk_status status; /* YK_E_NOMEM if a row was lost */
} yk_machine_run;

/* yk_machine_add - append a row with figures computed from *us, or with err's message and no figures if `status` is an
 *   error. row: the measured case. */
void yk_machine_add(yk_machine_run *run, const yk_machine_row *row, yk_status status, const yk_spread *us,
                    const yk_err *err);

/* yk_machine_check_free - checks that n_bytes are free on a GPU, or with device -1 in the host's memory. Errors:
 *   YK_E_CAPACITY with both numbers, YK_E_DEVICE. */
yk_status yk_machine_check_free(int device, int64_t n_bytes, yk_err *err);

/* The measurements. A failure is reported in its row. */
void yk_machine_measure_memory(yk_machine_run *run);
void yk_machine_measure_gemm(yk_machine_run *run);
void yk_machine_measure_links(yk_machine_run *run);
void yk_machine_measure_all_reduces(yk_machine_run *run);

/* yk_machine_limits_of - the limits that follow from the report's rows. */
yk_machine_limits yk_machine_limits_of(const yk_machine_report *report);

#endif
