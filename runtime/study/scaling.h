/* scaling.h - each point of a study beside the same point on the fewest ranks: speed-up, efficiency, and where the rest
 * was lost (parts.h). */
#ifndef YK_STUDY_SCALING_H
#define YK_STUDY_SCALING_H

#include "base/json_tree.h"

/* yk_scaling_key - what a point is apart from its rank count ("batch 64, 512 in, 100 out, max-num-seqs 256"), which
 *   tells points that belong together. malloc'd and the caller's; NULL where memory is short. */
char *yk_scaling_key(const json_t *point);

/* yk_scaling_add - put "speedup", "efficiency", their intervals and "losses" into each point of an array of points as
 *   in study.json, where output_throughput and times allow. Errors: YK_E_NOMEM. */
yk_status yk_scaling_add(json_t *points, yk_err *err);

#endif
