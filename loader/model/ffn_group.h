/* ffn_group.h - the quantisation group that an FFN is cut at. */
#ifndef YK_LOADER_FFN_GROUP_H
#define YK_LOADER_FFN_GROUP_H

#include "loader/model/weight_names.h"

/* yk_ffn_group - channels of an FFN of n_channels that share a scale of down, the role of its down_proj: the largest
 *   number of all layers; where layers differ, the others' groups may be cut inside. Experts of a layer are alike: the
 *   first stands for them. 0: no layer is quantised. A name that takes too long to match counts as not quantised:
 *   yk_checkpoint_linear refuses it. Thread: any. */
int64_t yk_ffn_group(const yk_model_config *config, yk_weight_role down, int64_t n_channels);

#endif
