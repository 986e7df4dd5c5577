"""A small cluster on this machine, made by the product's own commands; the second half of tools/quickstart.

::

    tools/quickstart (no package needed)         this package (uses what was installed below the base)
      packages, virtual environment, build  -->  __main__   the story, step by step
      --env, --stop                                 |-- place     names, addresses, directories: pure
                                                    |-- machine   bridge, guest files, does KVM really boot a guest?
                                                    |-- cluster   gnt-cluster init, gnt-node add, gnt-instance ...
                                                    |-- console   talks to a guest on its serial line
                                                    `-- progress  output
"""
