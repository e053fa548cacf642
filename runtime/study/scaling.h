/* scaling.h - compares each point of a study with the same point on the fewest ranks: speed-up, efficiency, and losses
 * (parts.h). */
#ifndef YK_STUDY_SCALING_H
#define YK_STUDY_SCALING_H

#include "base/json_tree.h"

/* yk_scaling_key - a point's settings without its rank count ("batch 64, 512 in, 100 out, max-num-seqs 256"), equal for
 *   points that belong together. malloc'd, belongs to the caller; NULL: no memory. */
char *yk_scaling_key(const json_t *point);

/* yk_scaling_add - set "speedup", "efficiency", their intervals and "losses" in each point of an array of points in the
 *   form of study.json, if output_throughput and times suffice. Errors: YK_E_NOMEM. */
yk_status yk_scaling_add(json_t *points, yk_err *err);

#endif
