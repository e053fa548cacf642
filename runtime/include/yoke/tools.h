/* tools.h - what libyoke_tools has: measuring machines, converting and quantising checkpoints. A program links it by
 * -lyoke_tools (pkg-config yoke-tools, CMake's yoke::tools), beside libyoke or without it. The rules of yoke.h hold. */
#ifndef YK_TOOLS_H
#define YK_TOOLS_H

#include "yoke/checkpoint.h"
#include "yoke/machine.h"
#include "yoke/process.h"

#endif
