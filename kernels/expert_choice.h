/* expert_choice.h - how a mixture of experts chooses: the variants that configurations name and devices implement. */
#ifndef YK_KERNELS_EXPERT_CHOICE_H
#define YK_KERNELS_EXPERT_CHOICE_H

enum { YK_MAX_EXPERTS = 1024, YK_MAX_TOP_K = 32, YK_MAX_EXPERT_GROUPS = 64 };

typedef enum yk_expert_scoring { YK_SCORE_SOFTMAX, YK_SCORE_SIGMOID } yk_expert_scoring;

typedef enum yk_expert_group_score {
  YK_GROUP_SCORE_MAXIMUM,    /* maximum of the group's choice scores */
  YK_GROUP_SCORE_LARGEST_TWO /* sum of the two largest; needs at least two experts per group */
} yk_expert_group_score;

#endif
