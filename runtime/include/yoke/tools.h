/* tools.h - the interface of libyoke_tools: measuring machines, converting and quantising checkpoints. A program links
 * it by -lyoke_tools (pkg-config yoke-tools, CMake's yoke::tools), with or without libyoke. The rules of yoke.h
 * hold. */
#ifndef YK_TOOLS_H
#define YK_TOOLS_H

#include "yoke/checkpoint.h"
#include "yoke/machine.h"
#include "yoke/process.h"

#endif
