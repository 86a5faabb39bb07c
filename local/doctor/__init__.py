"""`sluice doctor`: what stands between a pools file and nodes, each with its remedy.

`probing_*` modules ask, and know nothing of right or wrong; `judging_*` modules judge, and ask nobody; `part_*` modules
hand answers to judges. `examination` has the order, and what is not asked because something before it failed.
"""
