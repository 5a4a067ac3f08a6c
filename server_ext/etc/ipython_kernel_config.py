# Makes %devcluster available in every IPython kernel of this environment.
c.InteractiveShellApp.extensions.append("devcluster.widgets")
