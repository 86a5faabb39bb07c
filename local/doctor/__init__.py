"""`sluice doctor`: what stands between a pools file and nodes, each with its remedy.

`probing_*` modules ask, and know nothing of right or wrong; `judging_*` modules judge, and ask nobody. `examination` says
which answer goes to which judge, and what is not asked because something before it failed.
"""
