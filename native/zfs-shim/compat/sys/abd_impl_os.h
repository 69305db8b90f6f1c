/* The development package of OpenZFS 2.3.2 installs this header under another name. */
#if __has_include(<libzpool/abd_impl_os.h>)
#include <libzpool/abd_impl_os.h>
#else
#include_next <sys/abd_impl_os.h>
#endif
